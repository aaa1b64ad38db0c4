"""Whether what clients saw of a broker agrees with what it promises."""
