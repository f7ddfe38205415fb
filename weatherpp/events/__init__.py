"""Extremes and case studies: what a case is, finding them, tracks, rarity, scores in a box.

Nothing here draws or reads a run folder; :mod:`weatherpp.pipeline.cases` does.
"""
