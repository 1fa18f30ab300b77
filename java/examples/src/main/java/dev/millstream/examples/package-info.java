/** Examples of operators and collectors. */
package dev.millstream.examples;
