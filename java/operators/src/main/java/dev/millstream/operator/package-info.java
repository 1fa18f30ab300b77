/** The API of operators: code in Java that transforms events inside the Millstream agent. */
package dev.millstream.operator;
