"""The native launch manifest: all that an executor needs to start the training, and no secrets."""

from placer.documents.manifest.manifest_document import build_manifest
from placer.documents.manifest.manifest_reader import SCHEMA, document_digest, edited, read_manifest
from placer.documents.manifest.types import Manifest

__all__ = ["SCHEMA", "Manifest", "build_manifest", "document_digest", "edited", "read_manifest"]
