"""Post-processing of ensemble weather forecasts with deep networks."""

__version__ = "0.1.0"
