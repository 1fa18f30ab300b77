/** Rules in AviatorScript: expressions over the fields of an event. */
package dev.millstream.operator.aviator;
