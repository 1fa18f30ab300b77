/** Examples of operators. */
package dev.millstream.examples;
