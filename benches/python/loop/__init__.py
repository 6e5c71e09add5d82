"""Measurements of the whole loop: actors, learner, weights and ratio."""
