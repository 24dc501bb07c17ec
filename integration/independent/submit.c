// SPDX-License-Identifier: MIT OR Apache-2.0

/* The smallest work there is: a NOP and a fence. More submissions than the ring has room for at once. */
#include "work.h"

#include <stdio.h>

/* Of 16 bytes each in a ring of 4,096: the ring is gone around twice. */
#define SUBMISSIONS 600

void submit(struct driver *driver)
{
    const uint64_t nop = PACKET_NOP | 1u << 16;
    struct queue queue;
    queue_create(driver, &queue, 0);
    queue_connect(driver, &queue);
    for (unsigned submission = 0; submission < SUBMISSIONS; submission++)
        queue_submit(driver, &queue, &nop, sizeof nop);
    queue_await(driver, &queue);
    printf("submit: %u submissions done, in order\n", SUBMISSIONS);
}
