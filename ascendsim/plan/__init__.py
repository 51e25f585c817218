"""Does it fit? A plan of the on-chip buffers: sizes as expressions over tiling fields, laid out, judged and solved."""
