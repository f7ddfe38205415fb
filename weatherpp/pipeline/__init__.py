"""Recipe -> stages -> run folder. See :func:`weatherpp.pipeline.run.run_recipe`."""
