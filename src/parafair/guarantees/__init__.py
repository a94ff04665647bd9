"""What holds for every model or every attacker."""
