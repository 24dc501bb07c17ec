// SPDX-License-Identifier: MIT OR Apache-2.0

/* What the device asks of a front end: to map parts of its BAR. transport.md, "Over vhost-user". */
#include "failure.h"
#include "transcript.h"
#include "vhost_user.h"
#include "words.h"

#include <sys/mman.h>
#include <unistd.h>

struct shared_memory {
    uint8_t region;
    uint8_t padding[7];
    uint64_t file_offset;
    uint64_t region_offset;
    uint64_t length;
    uint64_t flags;
};

_Static_assert(sizeof(struct shared_memory) == 40, "the body of SHMEM_MAP and SHMEM_UNMAP");

#define FLAG_WRITABLE 1u

static void put(struct window *window, const struct shared_memory *wanted, int file)
{
    int protection = wanted->flags & FLAG_WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    if (wanted->region != 0 || wanted->length == 0 || wanted->region_offset > window->size
        || wanted->length > window->size - wanted->region_offset)
        fail("the device maps what is not in the region");
    if (mmap(window->base + wanted->region_offset, wanted->length, protection, flags | MAP_FIXED,
             file, (off_t)(file < 0 ? 0 : wanted->file_offset)) == MAP_FAILED)
        fail_with_errno("cannot map a part of the BAR");
}

void window_open(struct window *window, uint64_t size)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        fail_with_errno("no addresses for the BAR");
    window->base = base;
    window->size = size;
}

void window_serve(struct window *window)
{
    struct message_body body;
    int file;
    transcript_step("the device's request, with a descriptor");
    struct message_header header = message_receive(window->channel, &body, &file);
    struct shared_memory wanted;
    uint64_t done = 0;
    if (body.length != sizeof wanted)
        fail("the device's request %u has %zu bytes", header.request, body.length);
    memcpy(&wanted, body.bytes, sizeof wanted);
    if (header.request == SHMEM_MAP && file >= 0) {
        put(window, &wanted, file);
        close(file);
    } else if (header.request == SHMEM_UNMAP) {
        wanted.flags = FLAG_WRITABLE;
        put(window, &wanted, -1);
    } else {
        fail("the device asks for %u", header.request);
    }
    if (header.flags & MESSAGE_NEED_REPLY)
        message_send(window->channel, header.request, MESSAGE_REPLY, &done, sizeof done, -1);
}

void window_clear(struct window *window)
{
    struct shared_memory all = {.length = window->size, .flags = FLAG_WRITABLE};
    if (window->base != NULL)
        put(window, &all, -1);
}
