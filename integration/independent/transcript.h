// SPDX-License-Identifier: MIT OR Apache-2.0

/* Every byte that crosses the boundary, for people: docs/worked-example.md is made of it. */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* Has what follows written to standard output; nothing is without this. */
void transcript_begin(void);

/* Begins a step of the example. */
__attribute__((format(printf, 1, 2))) void transcript_step(const char *format, ...);

/* These bytes went somewhere. Rows of zeroes that repeat are left out, as `*`. */
void transcript_bytes(const char *what, const void *bytes, size_t length);

#endif
