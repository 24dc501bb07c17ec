// SPDX-License-Identifier: MIT OR Apache-2.0

/* Requests that are wrong in one thing. Each is refused with the status and detail that protocol.md, 6
 * and 8, promise, and the device serves on. */
#include "failure.h"
#include "work.h"

#include <stdio.h>
#include <string.h>

#define MOST_WORDS 16

struct malformed {
    const char *what;
    enum request_code code;
    enum { OF_THE_PROCESS, OF_THE_ADAPTER, OF_NOBODY, OF_ITSELF } process;
    size_t words; /* of the body, 8 bytes each */
    uint64_t body[MOST_WORDS];
    enum status status;
    uint64_t detail;
};

void expect(struct driver *driver, const char *what, struct ended ended, enum status status,
            uint64_t detail)
{
    const uint64_t reserved = 0;
    if (ended.status != (uint32_t)status || ended.detail != detail)
        fail("%s ended with 0x%08x and detail 0x%llx, not with 0x%08x and 0x%llx", what,
             ended.status, (unsigned long long)ended.detail, (uint32_t)status,
             (unsigned long long)detail);
    size_t length = control_write(&driver->control, QUERY_STATISTICS, 0, &reserved, sizeof reserved);
    if (control_send(&driver->control, length, PAGE).status != SUCCESS)
        fail("after %s the device does not serve on", what);
}

static struct ended send(struct driver *driver, const struct malformed *malformed)
{
    uint32_t process = driver->process;
    if (malformed->process == OF_THE_ADAPTER)
        process = 0;
    if (malformed->process == OF_NOBODY)
        process = UINT32_MAX;
    size_t length = control_write(&driver->control, malformed->code, process, malformed->body,
                                  8 * malformed->words);
    return control_send(&driver->control, length, PAGE);
}

/* The two halves of 8 bytes of a body. */
#define PAIR(low, high) ((uint64_t)(low) | (uint64_t)(high) << 32)

/* Requests with a body of the right length, wrong in the value of a field. */
static unsigned wrong_values(struct driver *driver)
{
    struct queue used, bare;
    queue_create(driver, &used, 0);
    queue_connect(driver, &used);
    struct create_hw_queue create = {.context = driver->context, .flags = 3};
    control_call(&driver->control, CREATE_HW_QUEUE, driver->process, &create, sizeof create,
                 &bare.hw_queue, sizeof bare.hw_queue);
    const uint64_t device = driver->device, context = driver->context, page = PAGE;
    const uint64_t nowhere = driver->guest->nowhere, huge = 1ull << 50, no_handle = 1ull << 60;
    const uint64_t fence = used.hw_queue.progress_fence.handle, memory = used.commands.handle;
    const uint64_t unrung = bare.hw_queue.handle, ring = used.ring.handle;
    const uint32_t process = driver->process;
    const struct malformed all[] = {
        {"a code that is none", 0, OF_THE_PROCESS, 1, {0}, INVALID_DEVICE_REQUEST, 0},
        {"another", 0x7F, OF_THE_PROCESS, 1, {0}, INVALID_DEVICE_REQUEST, 0x7F},
        {"the greatest code", (enum request_code)-1, OF_THE_PROCESS, 1, {0}, INVALID_DEVICE_REQUEST,
         UINT32_MAX},
        {"an adapter that is opened under a process", OPEN_ADAPTER, OF_THE_ADAPTER, 2,
         {PAIR(VERSION_MAJOR, 0), 0}, DEVICE_BUSY, 1},
        {"an adapter's request with a process", GET_NODE_METADATA, OF_THE_PROCESS, 1, {0},
         INVALID_PARAMETER, process},
        {"a process's request without one", CREATE_DEVICE, OF_THE_ADAPTER, 1, {0}, INVALID_HANDLE, 0},
        {"a process that is none", CREATE_DEVICE, OF_NOBODY, 1, {0}, INVALID_HANDLE, UINT32_MAX},
        {"a node that is none", GET_NODE_METADATA, OF_THE_ADAPTER, 1,
         {PAIR(driver->adapter.nodes, 0)}, INVALID_PARAMETER, driver->adapter.nodes},
        {"a reserved field", CREATE_DEVICE, OF_THE_PROCESS, 1, {7}, INVALID_PARAMETER, 7},
        {"a context of no device", CREATE_CONTEXT, OF_THE_PROCESS, 2, {no_handle, 0}, INVALID_HANDLE,
         no_handle},
        {"a context of a context", CREATE_CONTEXT, OF_THE_PROCESS, 2, {context, 0},
         OBJECT_TYPE_MISMATCH, context},
        {"a context on no node", CREATE_CONTEXT, OF_THE_PROCESS, 2, {device, PAIR(99, 0)},
         INVALID_PARAMETER, 99},
        {"a queue with a flag that is none", CREATE_HW_QUEUE, OF_THE_PROCESS, 2,
         {context, PAIR(8, 0)}, INVALID_PARAMETER, 8},
        {"a queue without a time-out where the host does not offer that", CREATE_HW_QUEUE,
         OF_THE_PROCESS, 2, {context, PAIR(4, 0)}, NOT_SUPPORTED, 0},
        {"a queue for user-mode submission without a native fence", CREATE_HW_QUEUE, OF_THE_PROCESS, 2,
         {context, PAIR(QUEUE_USER_MODE_SUBMISSION, 0)}, INVALID_PARAMETER, 1},
        {"an allocation of nothing", CREATE_ALLOCATION, OF_THE_PROCESS, 6, {device, 0, 0, 0, 0, 0},
         INVALID_PARAMETER, 0},
        {"an allocation that ends within a page", CREATE_ALLOCATION, OF_THE_PROCESS, 6,
         {device, page + 1, 0, 0, 0, 0}, INVALID_PARAMETER, page + 1},
        {"an allocation of no kind", CREATE_ALLOCATION, OF_THE_PROCESS, 6, {device, page, 9, 0, 0, 0},
         INVALID_PARAMETER, 9},
        {"an allocation where there is no memory", CREATE_ALLOCATION, OF_THE_PROCESS, 8,
         {device, page, PAIR(ALLOCATION_SYSTEM, 1), 0, 0, 0, nowhere, page}, INVALID_PARAMETER,
         nowhere},
        {"an extent that is too long", CREATE_ALLOCATION, OF_THE_PROCESS, 8,
         {device, huge, PAIR(ALLOCATION_SYSTEM, 1), 0, 0, 0, used.ring.page.address, huge},
         INVALID_PARAMETER, huge},
        {"an extent that is not there", CREATE_ALLOCATION, OF_THE_PROCESS, 8,
         {device, page, PAIR(ALLOCATION_SYSTEM, 2), 0, 0, 0, used.ring.page.address, page},
         INVALID_BUFFER_SIZE, HEADER_SIZE + 64},
        {"more local memory than there is", CREATE_ALLOCATION, OF_THE_PROCESS, 6,
         {device, huge, 0, 0, 0, 0}, GRAPHICS_NO_VIDEO_MEMORY, huge},
        {"a mapping from behind an allocation's end", MAP_GPU_VIRTUAL_ADDRESS, OF_THE_PROCESS, 5,
         {memory, 0, page, page, 1}, INVALID_PARAMETER, page},
        {"a mapping of 2^63 bytes", MAP_GPU_VIRTUAL_ADDRESS, OF_THE_PROCESS, 5,
         {memory, 0, 0, 1ull << 63, 1}, INVALID_PARAMETER, 1ull << 63},
        {"a mapping at an address that is the device's", MAP_GPU_VIRTUAL_ADDRESS, OF_THE_PROCESS, 5,
         {memory, page, 0, page, 1}, INVALID_PARAMETER, page},
        {"a mapping with a protection that is none", MAP_GPU_VIRTUAL_ADDRESS, OF_THE_PROCESS, 5,
         {memory, 0, 0, page, 2}, INVALID_PARAMETER, 2},
        {"addresses that were never mapped", FREE_GPU_VIRTUAL_ADDRESS, OF_THE_PROCESS, 2,
         {1ull << 30, page}, CONFLICTING_ADDRESSES, 1ull << 30},
        {"a ring that is its own control", CREATE_DOORBELL, OF_THE_PROCESS, 6,
         {unrung, memory, memory, 0, 0, 0}, INVALID_PARAMETER, memory},
        {"a second doorbell", CREATE_DOORBELL, OF_THE_PROCESS, 6,
         {used.hw_queue.handle, ring, used.ring_control.handle, 0, 0, 0}, INVALID_PARAMETER,
         used.hw_queue.handle},
        {"a doorbell that there is not", CONNECT_DOORBELL, OF_THE_PROCESS, 1, {unrung},
         INVALID_PARAMETER, unrung},
        {"the end of a ring in use", DESTROY_ALLOCATION, OF_THE_PROCESS, 1, {ring},
         GRAPHICS_ALLOCATION_BUSY, ring},
        {"a progress fence's signal", SIGNAL_FENCES, OF_THE_PROCESS, 3, {1, fence, 1}, NOT_SUPPORTED, 0},
        {"a wait for nothing", WAIT_FOR_FENCES, OF_THE_PROCESS, 2, {0, 0}, INVALID_PARAMETER, 0},
        {"kernel-mode submission to a queue for the other", SUBMIT_COMMAND, OF_THE_PROCESS, 4,
         {unrung, 1ull << 20, 1, 64}, NOT_SUPPORTED, 0},
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        expect(driver, all[at].what, send(driver, &all[at]), all[at].status, all[at].detail);
    return sizeof all / sizeof *all;
}

/* Requests that are not as long as they say, or as they must be. */
static unsigned wrong_lengths(struct driver *driver)
{
    static const struct {
        const char *what;
        size_t length;  /* of the readable part */
        uint32_t claim; /* in the header */
    } all[] = {
        {"an empty request", 0, 24},
        {"half a header", 8, 24},
        {"a header alone", 16, 16},
        {"a byte too few", 23, 23},
        {"8 bytes too many", 32, 32},
        {"a claim of 8 bytes more", 24, 32},
        {"a claim of nothing", 24, 0},
    };
    const uint64_t body[2] = {0, 0};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        control_write(&driver->control, CREATE_DEVICE, driver->process, body, sizeof body);
        memcpy(driver->control.request.here + 4, &all[at].claim, 4);
        struct ended ended = control_send(&driver->control, all[at].length, PAGE);
        expect(driver, all[at].what, ended, INVALID_BUFFER_SIZE, all[at].length);
    }
    return sizeof all / sizeof *all;
}

void malformed(struct driver *driver)
{
    unsigned count = wrong_lengths(driver) + wrong_values(driver) + malformed_chains(driver);
    const uint64_t nop = PACKET_NOP | 1u << 16;
    struct queue queue;
    queue_create(driver, &queue, 0);
    queue_connect(driver, &queue);
    queue_submit(driver, &queue, &nop, sizeof nop);
    queue_await(driver, &queue);
    printf("malformed: %u requests refused, each as it should be\n", count);
}
