"""How far the model is off: published measurements, rebuilt from instructions and scheduled like any kernel."""
