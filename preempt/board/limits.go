package board

// MaxThreshold is the most commands that a queue may have outstanding while its
// task is bounded. The preload library keeps to it in free run too (XM_FREE_LIMIT
// in its state.h): beyond it a launch could block inside the driver, where nobody
// can have it wait by itself.
const MaxThreshold = 256
