// SPDX-License-Identifier: MIT OR Apache-2.0

/* Descriptor chains that carry no request, or cannot take its reply: protocol.md, 6. */
#include "failure.h"
#include "work.h"

/* Each begins with this descriptor, which is not the one that good requests begin with. */
#define HEAD 4u
/* Of CREATE_DEVICE: header and handle. */
#define REPLY 24u

struct link {
    uint64_t address;
    uint32_t length;
    uint16_t flags;
    uint16_t next;
};

static struct ended offer(struct driver *driver, const struct link *links, size_t count)
{
    for (size_t at = 0; at < count; at++)
        virtqueue_describe(&driver->control.queue, (uint16_t)(HEAD + at), links[at].address,
                           links[at].length, links[at].flags, links[at].next);
    return control_exchange(&driver->control, HEAD);
}

static void expect_written(const char *what, struct ended ended, uint32_t written)
{
    if (ended.written != written)
        fail("%s: %u bytes came back, not %u", what, ended.written, written);
}

unsigned malformed_chains(struct driver *driver)
{
    const uint64_t body = 0, nowhere = driver->guest->nowhere;
    const uint64_t request_at = driver->control.request.address;
    const uint64_t reply_at = driver->control.reply.address;
    uint32_t length = (uint32_t)control_write(&driver->control, CREATE_DEVICE, driver->process,
                                              &body, sizeof body);
    const struct link request = {request_at, length, DESCRIPTOR_NEXT, HEAD + 1};
    const struct link reply = {reply_at, PAGE, DESCRIPTOR_WRITE, 0};
    struct link writable = reply, readable = request, header = reply;
    struct link long_request[18];
    unsigned count = 0;

    writable.flags = DESCRIPTOR_WRITE | DESCRIPTOR_NEXT;
    writable.next = HEAD + 1;
    expect(driver, "a chain that loops", offer(driver, (struct link[]){request, writable}, 2),
           INVALID_PARAMETER, HEAD);
    count++;

    control_write(&driver->control, CREATE_DEVICE, driver->process, &body, sizeof body);
    writable.next = UINT16_MAX;
    expect(driver, "a chain that leaves the table",
           offer(driver, (struct link[]){request, writable}, 2), INVALID_PARAMETER, HEAD);
    count++;

    control_write(&driver->control, CREATE_DEVICE, driver->process, &body, sizeof body);
    writable.next = HEAD + 1;
    readable.flags = 0;
    expect(driver, "a readable descriptor behind a writable one",
           offer(driver, (struct link[]){writable, readable}, 2), INVALID_PARAMETER, HEAD);
    count++;

    readable = request;
    readable.address = nowhere;
    expect(driver, "a request that is nowhere",
           offer(driver, (struct link[]){readable, reply}, 2), ACCESS_VIOLATION, nowhere);
    count++;

    control_write(&driver->control, CREATE_DEVICE, driver->process, &body, sizeof body);
    header.length = HEADER_SIZE;
    header.flags = DESCRIPTOR_WRITE | DESCRIPTOR_NEXT;
    header.next = HEAD + 2;
    writable = reply;
    writable.address = nowhere;
    expect(driver, "a reply that would be nowhere",
           offer(driver, (struct link[]){request, header, writable}, 3), ACCESS_VIOLATION, nowhere);
    count++;

    control_write(&driver->control, CREATE_DEVICE, driver->process, &body, sizeof body);
    for (uint32_t room = HEADER_SIZE; room < REPLY; room += REPLY - 1 - HEADER_SIZE) {
        writable = reply;
        writable.length = room;
        struct ended ended = offer(driver, (struct link[]){request, writable}, 2);
        expect_written("a reply without room", ended, HEADER_SIZE);
        expect(driver, "a reply without room", ended, BUFFER_TOO_SMALL, REPLY);
        control_write(&driver->control, CREATE_DEVICE, driver->process, &body, sizeof body);
        count++;
    }

    readable = request;
    readable.flags = 0;
    expect_written("a chain without a writable part",
                   offer(driver, (struct link[]){readable}, 1), 0);
    count++;

    for (uint16_t at = 0; at < 17; at++)
        long_request[at] = (struct link){request_at, PAGE, DESCRIPTOR_NEXT, (uint16_t)(HEAD + at + 1)};
    long_request[17] = reply;
    expect(driver, "a request of 68 KiB", offer(driver, long_request, 18), INVALID_BUFFER_SIZE,
           MAX_REQUEST);
    return count + 1;
}
