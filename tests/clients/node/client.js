// Sends the table of tests/clients with the library `hot-shots`: client.js ADDRESS
'use strict';

const { StatsD } = require('hot-shots');

const STAMP = 1700000000;

function connect(address) {
  const url = new URL(address);
  const where = url.protocol === 'unixgram:'
    ? { protocol: 'uds', path: url.pathname, maxBufferSize: 8000 }
    : { protocol: url.protocol.slice(0, -1), host: url.hostname, port: Number(url.port), maxBufferSize: 1400 };
  return new StatsD({
    ...where,
    globalTags: { lang: 'node' },
    errorHandler: (error) => {
      console.error(error);
      process.exitCode = 1;
    },
  });
}

function send(client) {
  for (let i = 1; i <= 100; i++) {
    client.increment('client.requests', 1, { route: '/a' });
    client.increment('client.bytes', i, { route: '/a', code: '200' });
    client.increment('client.balance', 3, ['urgent']);
    client.decrement('client.balance', 1, ['urgent']);
    client.gauge('client.level', i);
    client.gauge('client.cold', -i / 2);
    client.timing('client.wait', i, { route: '/a' });
    client.histogram('client.size', 1.5 * i);
    client.distribution('client.spread', 2 * i);
    client.set('client.users', `user-${i % 7}`);
  }
  client.gauge('client.stamped', 7.5, { timestamp: STAMP });
  client.increment('client.stamped.count', 12, { timestamp: STAMP });
  client.event(
    'deployed',
    'version 2\non all hosts',
    { alert_type: 'warning', aggregation_key: 'deploys', priority: 'low' },
    { team: 'web' },
  );
  client.check('client.database', client.CHECKS.CRITICAL, { message: 'no answer' }, { team: 'web' });
}

const client = connect(process.argv[2]);
send(client);
client.close((error) => {
  if (error) {
    console.error(error);
    process.exitCode = 1;
  }
});
