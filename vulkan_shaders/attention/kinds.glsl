// What the mask does in a tile of some queries and keys.
const uint NONE = 0;  // excludes everything: the tile is not computed
const uint WHOLE = 1; // nothing: the mask need not be read
const uint MIXED = 2; // anything else, and what the tile has beyond the last key
