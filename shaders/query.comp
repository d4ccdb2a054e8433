/* Queries to A8 on any device; see lib/query.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "query.glsl"
