/* Between the C side of the library, whose functions are public, and the Go side. */
#ifndef XMSCHED_API_H
#define XMSCHED_API_H

#include "../include/xmsched.h"

XResult xm_api_fail(XResult code, const char *text);
XResult xm_api_launch(LaunchCallback launch, HwQueueHandle hwq, void *data);
XResult xm_api_mark(const XHwQueueOps *ops, void *data, void **marker);
XResult xm_api_wait(const XHwQueueOps *ops, void *data, void *marker);
XResult xm_api_synchronize(const XHwQueueOps *ops, void *data);

#endif
