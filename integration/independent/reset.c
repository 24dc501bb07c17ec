// SPDX-License-Identifier: MIT OR Apache-2.0

/* A reset with work done before and after it: transport.md, "Reset". */
#include "failure.h"
#include "work.h"

#include <stdio.h>

void reset(struct driver *driver)
{
    const uint64_t nop = PACKET_NOP | 1u << 16;
    struct guest *guest = driver->guest;
    uint32_t process = driver->process;
    struct queue queue;
    queue_create(driver, &queue, 0);
    queue_submit(driver, &queue, &nop, sizeof nop);
    queue_await(driver, &queue);
    guest->stop(guest);
    /* The adapter is closed, and can be opened: the process is gone. */
    driver_open(driver, guest);
    size_t length = control_write(&driver->control, CREATE_DEVICE, process, &(uint64_t){0}, 8);
    struct ended ended = control_send(&driver->control, length, PAGE);
    if (driver->process != process)
        expect(driver, "a process of before the reset", ended, INVALID_HANDLE, process);
    queue_create(driver, &queue, 0);
    queue_submit(driver, &queue, &nop, sizeof nop);
    queue_await(driver, &queue);
    printf("reset: all is gone, and the device serves anew\n");
}
