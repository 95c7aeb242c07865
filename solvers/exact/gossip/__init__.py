"""Bounds of regions that work at their own pace and send to each other in turn."""
