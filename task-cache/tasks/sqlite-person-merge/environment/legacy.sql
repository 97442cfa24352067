PRAGMA user_version = 1;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, email TEXT, phone TEXT, created_at TEXT NOT NULL);
CREATE TABLE orders   (id INTEGER PRIMARY KEY, customer_id INTEGER, placed_at TEXT NOT NULL, amount TEXT);
CREATE TABLE label    (customer_id INTEGER, label TEXT);
INSERT INTO customer VALUES
  (1, 'Ines Falk',      'ines@falk.example',      '+49 30 555 0101',  '2019-03-01 09:00:00'),
  (2, 'I. Falk',        ' INES@falk.example ',    NULL,               '2021-06-11 12:30:00'),
  (3, NULL,             '',                       '0049-30-5550101',  '2018-12-24 18:00:00'),
  (4, 'Tom Okafor',     'tom@okafor.example',     '030/7777 12',      '2020-02-02 02:02:02'),
  (5, 'Mail order 17',  'none',                   '',                 '2020-05-05 10:00:00'),
  (6, 'Mail order 18',  'none',                   '',                 '2020-05-06 10:00:00'),
  (7, ' ',              'shop@okafor.example',    '(030) 7777.12',    '2022-08-15 16:45:10'),
  (8, 'Beate Lind',     'beate@lind.example',     '110',              '2017-01-31 08:15:00'),
  (9, 'Carl Lind',      'carl@lind.example',      '110',              '2017-01-31 08:15:00');
INSERT INTO orders VALUES
  (100, 1, '2019-03-02', '19.99'), (101, 2, '2021-06-12', '1,204.5'), (102, 3, '2018-12-27', '7'),
  (103, 4, '2020-02-03', '-0.30'), (104, 7, '2022-08-16', ' 0.29 '), (105, 42, '2016-10-10', '88.10'),
  (106, NULL, '2016-10-11', '1.1'), (107, 9, '2017-02-01', '1,000,000');
INSERT INTO label VALUES
  (1, 'Newsletter'), (2, 'newsletter '), (3, 'vip'), (4, ''), (7, NULL), (8, 'VIP'), (42, 'lost');
