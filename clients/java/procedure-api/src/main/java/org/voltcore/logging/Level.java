package org.voltcore.logging;

/** How serious a line of a {@link VoltLogger} is, the least first. */
public enum Level {
    ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF
}
