// Package faults reads which pages of managed memory this process's kernels have
// faulted on: the fault feed of NVIDIA's unified memory driver, without root.
//
// Two halves. The pure one knows entries and queues: it decodes, and folds what it
// reads into the 2 MiB blocks that were touched, read or written. The other is a
// Feed: it opens the driver's file for tools, hands it a queue in this process's
// memory, and reads that while kernels run. What the driver does, and where the
// simulated one stands in for it, is behind System.
//
// The driver writes the queue whenever it likes: an index is taken once, cut to the
// queue's size, and an entry is read behind it. What does not fit the queue the
// driver drops and counts, and so do we: whoever learns from a feed must ask
// Dropped before it takes an absence for a fact.
//
// Of a page that is resident nothing is seen, so memory is sent to the host first. A
// page's later accesses are not seen either, unless it is advised to be read mostly:
// then a write after a read is.
//
// Concurrency: a Feed belongs to one goroutine. Nothing here starts one.
package faults
