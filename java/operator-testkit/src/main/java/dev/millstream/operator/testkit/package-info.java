/** Unit tests of operators without an agent. */
package dev.millstream.operator.testkit;
