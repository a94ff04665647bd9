"""Bounds that hold for every model or every attacker."""
