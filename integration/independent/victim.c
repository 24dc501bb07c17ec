// SPDX-License-Identifier: MIT OR Apache-2.0

/* More queues than there are physical doorbells: some are disconnected, and connect again. protocol.md, 3. */
#include "failure.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 3

void victim(struct driver *driver)
{
    const uint64_t nop = PACKET_NOP | 1u << 16;
    unsigned count = driver->caps.physical_doorbells + 1, disconnected = 0, retries = 0;
    struct queue *queues = calloc(count, sizeof *queues);
    if (queues == NULL)
        fail("no memory for %u queues", count);
    for (unsigned queue = 0; queue < count; queue++) {
        queue_create(driver, &queues[queue], 0);
        queue_connect(driver, &queues[queue]);
    }
    for (unsigned queue = 0; queue < count; queue++)
        disconnected += queue_status(driver, &queues[queue]) == DISCONNECTED_RETRY;
    if (disconnected == 0)
        fail("%u queues have %u physical doorbells", count, driver->caps.physical_doorbells);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned queue = 0; queue < count; queue++)
            queue_submit(driver, &queues[queue], &nop, sizeof nop);
    for (unsigned queue = 0; queue < count; queue++) {
        queue_await(driver, &queues[queue]);
        retries += queues[queue].retries;
    }
    if (retries == 0)
        fail("no doorbell was connected again");
    printf("victim: %u queues, doorbells were connected again, every submission done\n", count);
    free(queues);
}
