/** The API of operators: Java code that transforms events inside the Millstream agent. */
package dev.millstream.operator;
