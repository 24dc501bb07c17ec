// SPDX-License-Identifier: MIT OR Apache-2.0

/* The one way that this program fails: it says what it saw, and ends. */
#ifndef FAILURE_H
#define FAILURE_H

#include <time.h>

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* Ends the program with what the operating system says. */
__attribute__((noreturn)) void fail_with_errno(const char *what);

/* Ends the program when something takes longer than anything may. */
void check_time(const struct timespec *since, const char *what);

struct timespec now(void);

#endif
