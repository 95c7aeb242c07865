"""Documents against their schemas, which are made once; that each schema is valid itself is
`test_every_document.py`'s to say, as that takes far longer than to validate with it.
"""

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from placer.documents.schemas import schema_document


@cache
def validator(name: str) -> Draft202012Validator:
    """Return what validates documents of a kind."""
    return Draft202012Validator(schema_document(name))


def validate(document: Any, name: str) -> None:
    """Fail where a document does not follow the schema of its kind."""
    validator(name).validate(document)
