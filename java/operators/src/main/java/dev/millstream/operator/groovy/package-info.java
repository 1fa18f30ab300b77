/** Rules in Groovy, which are compiled once, statically where types are known, and limited to an allow-list of classes and methods. */
package dev.millstream.operator.groovy;
