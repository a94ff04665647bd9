"""Values of the arguments about several processes and checkpoints."""

from tests.campaign.values import choice

PROCESSES = {
    "share": choice(("None",), ("0", "'all'", "[0, 1]")),
    "process_group": choice(("None",), ("'gloo'", "0", "object()", "[]")),
    "checkpoint": choice(("None", "'state'"), ("0", "''", "b'state'")),
    "checkpoint_minutes": choice(("10", "0.5"), ("0", "-1", "'a'", "None")),
}
