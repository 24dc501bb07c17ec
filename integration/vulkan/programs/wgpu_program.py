# SPDX-License-Identifier: MIT OR Apache-2.0
# Draws a triangle with wgpu, from Python, in a window of X11 until it is ended.

import glfw
from rendercanvas.glfw import RenderCanvas, loop
import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

SHADER = """
struct Vertex { @builtin(position) place: vec4f, @location(0) colour: vec3f }

@vertex fn vertex(@builtin(vertex_index) index: u32) -> Vertex {
    var places = array(vec2f(0.0, 0.8), vec2f(-0.8, -0.6), vec2f(0.7, -0.8));
    var colours = array(vec3f(1.0, 0.9, 0.0), vec3f(0.0, 0.6, 1.0), vec3f(1.0, 0.0, 0.4));
    return Vertex(vec4f(places[index], 0.0, 1.0), colours[index]);
}

@fragment fn fragment(vertex: Vertex) -> @location(0) vec4f {
    return vec4f(vertex.colour, 1.0);
}
"""

# wgpu takes no driver whose conformance nobody tested, unless a program says so.
set_instance_extras(flags=["AllowUnderlyingNoncompliantAdapter"])

canvas = RenderCanvas(size=(200, 200), title="wgpu", update_mode="continuous", max_fps=30)
glfw.set_window_pos(canvas._window, 0, 0)
adapter = wgpu.gpu.request_adapter_sync(canvas=canvas)
print(adapter.info["device"], flush=True)
device = adapter.request_device_sync()
context = canvas.get_wgpu_context()
form = "bgra8unorm"
context.configure(device=device, format=form)
module = device.create_shader_module(code=SHADER)
pipeline = device.create_render_pipeline(
    layout="auto",
    vertex={"module": module, "entry_point": "vertex"},
    primitive={"topology": "triangle-list"},
    fragment={"module": module, "entry_point": "fragment", "targets": [{"format": form}]},
)


@canvas.request_draw
def draw():
    view = context.get_current_texture().create_view()
    encoder = device.create_command_encoder()
    rendering = encoder.begin_render_pass(
        color_attachments=[
            {"view": view, "clear_value": (0.2, 0.4, 0.6, 1), "load_op": "clear", "store_op": "store"}
        ]
    )
    rendering.set_pipeline(pipeline)
    rendering.draw(3)
    rendering.end()
    device.queue.submit([encoder.finish()])


loop.run()
