// SPDX-License-Identifier: MIT OR Apache-2.0

/* Split virtqueues. Source: VIRTIO 1.3, 2.7. */
#ifndef VIRTQUEUE_H
#define VIRTQUEUE_H

#include "guest.h"

#include <stdbool.h>
#include <stddef.h>

#define QUEUE_SIZE 32u
/* Where a queue's parts are in its page. */
#define AVAILABLE_OFFSET (16u * QUEUE_SIZE)
#define USED_OFFSET (AVAILABLE_OFFSET + 4u + 2u * QUEUE_SIZE + 4u)

#define DESCRIPTOR_NEXT 1u
#define DESCRIPTOR_WRITE 2u

_Static_assert(USED_OFFSET % 4 == 0, "the used ring is aligned to 4");
_Static_assert(USED_OFFSET + 4 + 8 * QUEUE_SIZE + 2 <= PAGE, "a queue is in one page");

struct virtqueue {
    struct page page;
    uint16_t offered;
    uint16_t taken;
};

void virtqueue_describe(struct virtqueue *queue, uint16_t index, uint64_t address, uint32_t length,
                        uint16_t flags, uint16_t next);
void virtqueue_offer(struct virtqueue *queue, uint16_t head);
/* Takes what the device gave back next, if it has. */
bool virtqueue_take(struct virtqueue *queue, uint32_t *head, uint32_t *written);

#endif
