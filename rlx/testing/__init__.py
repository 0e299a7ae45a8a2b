"""What a run is hit with to see that it survives: processes, damage, functions that misbehave."""
