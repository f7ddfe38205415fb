"""Networks: modules that turn standardised predictors into corrections, and nothing else."""
