/* RMS norm on any device; see lib/norm.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "norm.glsl"
