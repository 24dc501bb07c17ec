// SPDX-License-Identifier: MIT OR Apache-2.0

#include "virtqueue.h"

#include "failure.h"
#include "words.h"

void virtqueue_describe(struct virtqueue *queue, uint16_t index, uint64_t address, uint32_t length,
                        uint16_t flags, uint16_t next)
{
    uint8_t *descriptor = queue->page.here + 16u * index;
    put64(descriptor, address);
    put32(descriptor + 8, length);
    put16(descriptor + 12, flags);
    put16(descriptor + 14, next);
}

void virtqueue_offer(struct virtqueue *queue, uint16_t head)
{
    uint8_t *available = queue->page.here + AVAILABLE_OFFSET;
    store16(available + 4 + 2 * (queue->offered % QUEUE_SIZE), head);
    queue->offered++;
    /* Publishes the descriptors and what they name. */
    store16(available + 2, queue->offered);
    /* Before the look at whether the device wants to be kicked, which this driver always does. */
    full_fence();
}

bool virtqueue_take(struct virtqueue *queue, uint32_t *head, uint32_t *written)
{
    uint8_t *used = queue->page.here + USED_OFFSET;
    uint16_t given_back = load16(used + 2);
    if (given_back == queue->taken)
        return false;
    const uint8_t *element = used + 4 + 8 * (queue->taken % QUEUE_SIZE);
    *head = get32(element);
    *written = get32(element + 4);
    queue->taken++;
    if ((uint16_t)(queue->offered - queue->taken) > QUEUE_SIZE)
        fail("more came back than was offered");
    return true;
}
