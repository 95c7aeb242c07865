"""Policies that decide tick by tick where a job runs: replayed over traces, or on a live feed."""
