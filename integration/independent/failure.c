// SPDX-License-Identifier: MIT OR Apache-2.0

#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds after which something is taken not to happen. */
#define PATIENCE 30

void fail(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fputs("independent: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void fail_with_errno(const char *what)
{
    fail("%s: %s", what, strerror(errno));
}

struct timespec now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

void check_time(const struct timespec *since, const char *what)
{
    if (now().tv_sec - since->tv_sec > PATIENCE)
        fail("%s does not come", what);
}
