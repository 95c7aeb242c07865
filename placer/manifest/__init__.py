"""The native launch manifest: all that an executor needs to start the training, and no secrets."""

from placer.manifest.native import SCHEMA, manifest_document

__all__ = ["SCHEMA", "manifest_document"]
