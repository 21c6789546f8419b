// Package experiment runs programs on a device in the ways that the rows need:
// alone, sharing without us, and under a daemon of the experiment's own, and
// makes rows of what they report.
//
// The process that runs an experiment never loads the driver itself: whatever
// touches the device is a child, spoken to by JSON lines, so that what is
// measured is what a foreign program sees. Every child is ended before the
// experiment returns, whatever happened; should this process be killed, the
// kernel ends them (parent death signal), and they end themselves at the end of
// their stdin.
//
// What may not happen here: changing settings of the card, touching a daemon or
// a run directory that is not the experiment's own, and times from a simulator
// that do not say so.
package experiment
