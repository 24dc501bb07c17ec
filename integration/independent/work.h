// SPDX-License-Identifier: MIT OR Apache-2.0

/* What this program does with a device. Each prints a line, or ends the program. */
#ifndef WORK_H
#define WORK_H

#include "driver.h"

void probe(struct driver *driver);
void submit(struct driver *driver);
void copy(struct driver *driver);
void victim(struct driver *driver);
void reset(struct driver *driver);
void malformed(struct driver *driver);

/* The part of `malformed` that is about descriptor chains; returns how many there were. */
unsigned malformed_chains(struct driver *driver);

/* Fails unless a request ended so, and the device serves on. */
void expect(struct driver *driver, const char *what, struct ended ended, enum status status,
            uint64_t detail);

#endif
