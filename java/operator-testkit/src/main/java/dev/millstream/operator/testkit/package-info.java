/** Support for unit tests of operators and collectors without an agent. */
package dev.millstream.operator.testkit;
