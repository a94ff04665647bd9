"""Random calls, commands, kills and damage: `python -m tests.campaign --seconds 600 --seed 7`."""
