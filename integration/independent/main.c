// SPDX-License-Identifier: MIT OR Apache-2.0

/* A driver of the device that knows docs/protocol.md and nothing else. */
#include "failure.h"
#include "transcript.h"
#include "work.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*work)(struct driver *driver);
} WORKS[] = {
    {"probe", probe},
    {"submit", submit},
    {"copy", copy},
    {"victim", victim},
    {"reset", reset},
    {"malformed", malformed},
};

#define WORK_COUNT (sizeof WORKS / sizeof *WORKS)

/* docs/worked-example.md: a NOP's way from the connection to its fence, every byte written down. */
static void example(const char *socket_path)
{
    const uint64_t nop = PACKET_NOP | 1u << 16;
    struct driver driver;
    struct queue queue;
    transcript_begin();
    driver_open(&driver, vhost_user_guest(socket_path));
    queue_create(&driver, &queue, NOTIFY_EACH_SUBMISSION);
    queue_connect(&driver, &queue);
    queue_submit(&driver, &queue, &nop, sizeof nop);
    queue_await(&driver, &queue);
    uint64_t bar_offset = queue.hw_queue.progress_fence.bar_offset;
    transcript_step("the progress fence, 0x%llx of the BAR", (unsigned long long)bar_offset);
    transcript_bytes("load", (const void *)(driver.guest->bar + bar_offset), 8);
    driver_close(&driver);
}

int main(int count, char **arguments)
{
    const char *socket_path = NULL;
    int next = 1;
    struct driver driver;
    if (count > 2 && strcmp(arguments[1], "--socket-path") == 0) {
        socket_path = arguments[2];
        next = 3;
    }
    if (socket_path != NULL && next + 1 == count && strcmp(arguments[next], "example") == 0) {
        example(socket_path);
        return 0;
    }
    driver_open(&driver, socket_path != NULL ? vhost_user_guest(socket_path) : pci_guest());
    for (; next < count; next++) {
        size_t work = 0;
        while (work < WORK_COUNT && strcmp(WORKS[work].name, arguments[next]) != 0)
            work++;
        if (work == WORK_COUNT)
            fail("there is no work %s: probe, submit, copy, victim, reset, malformed", arguments[next]);
        WORKS[work].work(&driver);
        fflush(stdout);
    }
    driver_close(&driver);
    return 0;
}
