"""Addresses of the web page."""

from __future__ import annotations

from litestar.handlers import HTTPRouteHandler

ROUTES: tuple[HTTPRouteHandler, ...] = ()
