package io.ferritedb.client;

/** A place on the earth, in degrees. */
public record Point(double longitude, double latitude) {}
