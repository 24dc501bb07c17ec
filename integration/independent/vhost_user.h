// SPDX-License-Identifier: MIT OR Apache-2.0

/* The messages of vhost-user: transport.md, "Over vhost-user". */
#ifndef VHOST_USER_H
#define VHOST_USER_H

#include <stddef.h>
#include <stdint.h>

enum message {
    GET_FEATURES = 1,
    SET_FEATURES = 2,
    SET_OWNER = 3,
    SET_MEM_TABLE = 5,
    SET_VRING_NUM = 8,
    SET_VRING_ADDR = 9,
    SET_VRING_BASE = 10,
    GET_VRING_BASE = 11,
    SET_VRING_KICK = 12,
    SET_VRING_CALL = 13,
    GET_PROTOCOL_FEATURES = 15,
    SET_PROTOCOL_FEATURES = 16,
    GET_QUEUE_NUM = 17,
    SET_VRING_ENABLE = 18,
    SET_BACKEND_REQ_FD = 21,
    GET_CONFIG = 24,
    GET_SHMEM_CONFIG = 44,
};

/* What the device asks of the front end. */
enum back_end_message {
    SHMEM_MAP = 9,
    SHMEM_UNMAP = 10,
};

#define MESSAGE_VERSION 1u
#define MESSAGE_REPLY (1u << 2)
#define MESSAGE_NEED_REPLY (1u << 3)

struct message_header {
    uint32_t request;
    uint32_t flags;
    uint32_t size;
};

/* More than any message has behind its header. */
#define MAX_BODY 4096u

struct message_body {
    size_t length;
    uint8_t bytes[MAX_BODY];
};

/* Sends a message, with a descriptor unless that is negative. */
void message_send(int socket, uint32_t request, uint32_t flags, const void *body, size_t length,
                  int descriptor);
/* Receives one, with a descriptor or -1. */
struct message_header message_receive(int socket, struct message_body *body, int *descriptor);

/* The region into which the device has its BAR mapped. */
struct window {
    int channel;
    uint8_t *base;
    uint64_t size;
};

void window_open(struct window *window, uint64_t size);
/* Does what the device asks for over the channel. */
void window_serve(struct window *window);
/* Takes every mapping back: the front end's own part of a reset. */
void window_clear(struct window *window);

#endif
