// SPDX-License-Identifier: MIT OR Apache-2.0

/* Bytes go from guest memory into local memory and back: protocol.md, 5, COPY. */
#include "failure.h"
#include "words.h"
#include "work.h"

#include <stdio.h>

#define PAGES 16u

static uint64_t copy_packet(uint64_t *packet, uint64_t source, uint64_t destination, uint64_t length)
{
    packet[0] = PACKET_COPY | 4u << 16;
    packet[1] = source;
    packet[2] = destination;
    packet[3] = length;
    return 32;
}

static uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 31 + at / 251);
}

void copy(struct driver *driver)
{
    struct create_allocation create = {
        .device = driver->device, .size = PAGES * PAGE, .kind = ALLOCATION_LOCAL};
    struct create_allocation_reply local;
    struct allocation from[PAGES], to[PAGES];
    uint64_t packets[2 * PAGES * 4];
    size_t length = 0;
    struct queue queue;
    control_call(&driver->control, CREATE_ALLOCATION, driver->process, &create, sizeof create,
                 &local, sizeof local);
    uint64_t local_va = driver_map(driver, local.handle, create.size);
    for (unsigned page = 0; page < PAGES; page++) {
        from[page] = driver_allocate(driver, true);
        to[page] = driver_allocate(driver, true);
        for (size_t at = 0; at < PAGE; at++)
            from[page].page.here[at] = pattern(page * PAGE + at);
        length += copy_packet(packets + length / 8, from[page].gpu_va, local_va + page * PAGE, PAGE);
        /* Packets of a queue execute in order, so the way back may follow at once. */
        length += copy_packet(packets + length / 8, local_va + page * PAGE, to[page].gpu_va, PAGE);
    }
    queue_create(driver, &queue, 0);
    queue_connect(driver, &queue);
    queue_submit(driver, &queue, packets, length);
    queue_await(driver, &queue);
    for (size_t at = 0; at < PAGES * PAGE; at++) {
        uint8_t in_bar = driver->guest->bar[local.bar_offset + at];
        uint8_t back = to[at / PAGE].page.here[at % PAGE];
        if (in_bar != pattern(at) || back != pattern(at))
            fail("byte %zu is %02x in local memory and %02x back, not %02x", at, in_bar, back,
                 pattern(at));
    }
    printf("copy: %u bytes there and back, each as it was\n", PAGES * PAGE);
}
