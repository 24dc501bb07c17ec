// SPDX-License-Identifier: MIT OR Apache-2.0

/* Requests and replies: protocol.md, 6. One is on its way at a time. */
#ifndef CONTROL_H
#define CONTROL_H

#include "guest.h"
#include "protocol.h"
#include "virtqueue.h"

#include <stddef.h>

struct control {
    struct guest *guest;
    struct virtqueue queue;
    struct page request;
    struct page reply;
};

/* How a request ended. */
struct ended {
    uint32_t written; /* bytes that the device says it wrote */
    uint32_t status;
    uint64_t detail;
};

/* Starts a guest's device with this control queue, and an event queue that has no buffer. */
void control_start(struct control *control, struct guest *guest);

/* Offers the chain that begins with a descriptor, and waits until it comes back. */
struct ended control_exchange(struct control *control, uint16_t head);

/* Sends these bytes as a request with a writable part of `room` bytes. */
struct ended control_send(struct control *control, size_t length, uint32_t room);

/* Writes a request into its page; returns its length. */
size_t control_write(struct control *control, enum request_code code, uint32_t process,
                     const void *body, size_t body_length);

/* Sends a request that must succeed, and copies the reply's body. */
void control_call(struct control *control, enum request_code code, uint32_t process,
                  const void *body, size_t body_length, void *reply, size_t reply_length);

#endif
