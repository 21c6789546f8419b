/* A library that contains nothing: preloading it costs what preloading anything costs. */
