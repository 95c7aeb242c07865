"""Where catalogs and links come from: providers' interfaces, files of other tools; one
file a source.

Only these modules use the network. Each source gives a `Harvest`; `placer.market.sources.save`
alone writes it.
"""
